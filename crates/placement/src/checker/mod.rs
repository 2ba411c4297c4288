//! The checker: violations of an assignment, determined from the file independently of the searches.

pub(crate) mod checked;
pub(crate) mod index;
mod violations;
