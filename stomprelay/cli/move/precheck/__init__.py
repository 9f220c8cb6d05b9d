"""What a move from one upstream to another would change for clients: `stomprelay move check`. Nothing is touched.

`pair` has the two upstreams, their products and the map between them. What clients use is read in three ways:
`sessions` asks a relay that runs, `journal` reads recorded frames, `tables` the tables that the pipeline makes of them,
and `logins` tries the logins at the new brokers. `connects` judges what clients say when they connect.
`report` has the findings, as text and as JSON. The verdicts are those of `relay.model.usage`.
"""
