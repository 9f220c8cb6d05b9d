A session that comes and goes costs a journal a third of what it did: what the contexts of its records have in common is encoded
once, an event in the words of another one not again, and secrets are looked for in half the time.
