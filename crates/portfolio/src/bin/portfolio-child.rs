//! The solver process of this crate's tests: nothing but the child.

fn main() {
    portfolio::run_child_if_asked();
}
