"""The declarations: one module a format family, construct Structs only, each field with its unit and Java source."""
