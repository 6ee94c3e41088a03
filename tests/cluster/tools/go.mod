module podgate.io/tests/cluster/tools

go 1.21
