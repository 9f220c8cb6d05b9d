In the report every chart has a table that says the same, one row for each time in which a consumer was stuck at one broker; on a narrow screen each row is a list, and nothing is cut off.
