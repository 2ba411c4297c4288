//! The solver process of this crate's tests.

fn main() {
    asp::run_child_if_asked();
}
