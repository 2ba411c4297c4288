//! The solver process of this crate's tests: nothing but the child.

fn main() {
    asp::run_child_if_asked();
}
