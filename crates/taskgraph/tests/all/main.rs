//! Task graphs from outside: what files say, what is refused, what the checker finds.

mod cedr;
mod corpus;
mod files;
mod rounds;
