//! One file for each class of advisory: what went wrong elsewhere must not go
//! wrong here.

mod exec_approvals;
