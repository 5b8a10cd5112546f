module example.net/queue

go 1.21
