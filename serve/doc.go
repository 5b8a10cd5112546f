// Package serve takes the runs of others from request to record: it accepts them, waits for the owner's approval where one
// is needed, queues them, runs them through run.Engine, and streams what happens through package broker.
//
// A [Server] is what every door of the service calls: httpapi today. A door says who asks (an auth.Identity) and translates;
// what the identity may see and do is decided here, once.
//
// Accepted means stored: [Server.Submit] returns when the row of the request is on the disk. From then on the run ends with a
// record whatever happens. A server that is killed finds it again when it starts: what waited waits again, what ran ends as
// [run.Error] with the output that had arrived. Nothing is run twice.
package serve
