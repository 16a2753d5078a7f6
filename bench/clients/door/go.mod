module pyromq.bench/door

go 1.24

require (
	github.com/apache/rocketmq-clients/golang/v5 v5.1.2
	golang.org/x/net v0.34.0
	google.golang.org/grpc v1.71.0
	google.golang.org/protobuf v1.36.4
)

require (
	github.com/golang/protobuf v1.5.4 // indirect
	golang.org/x/sys v0.29.0 // indirect
	golang.org/x/text v0.21.0 // indirect
	google.golang.org/genproto v0.0.0-20200526211855-cb27e3aa2013 // indirect
)
