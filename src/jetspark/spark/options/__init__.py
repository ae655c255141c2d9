"""The options of the data source: the table of all options, how their texts are read, and the checked options of
each kind of read and write. Nothing in this package connects to a server."""
