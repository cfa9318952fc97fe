module tapflow-worker

go 1.21

require (
	github.com/farsightsec/golang-framestream v0.3.0
	github.com/hashicorp/yamux v0.1.2
)
