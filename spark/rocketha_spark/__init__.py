"""Exported commitlogs as Spark tables: ``spark.read.format("rocketha").load(directory)``.

``source`` is what Spark calls, ``read`` what a program calls; ``exports`` opens directories, ``plan`` cuts them into
partitions, ``records`` finds the fields of a piece of log, ``arrays`` makes Arrow columns of them.
"""
