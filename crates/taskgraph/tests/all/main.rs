//! Task graphs from outside: what files say, what is refused, what the checker finds.

mod cedr;
mod files;
mod rounds;
