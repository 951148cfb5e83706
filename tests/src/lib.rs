//! End to end on namespaces with real peers.
