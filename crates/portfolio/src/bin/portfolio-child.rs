//! The solver process of this crate's tests.

fn main() {
    portfolio::run_child_if_asked();
}
