//! Ground rules over placements: those of a policy, and already violated limits.
//!
//! Rules form a circuit over atoms. An input atom is a placement, "actor a is on unit u". A rule derives its head if the
//! weights of its true literals sum to a bound; a *case* is an atom that must not hold. Example: unit u has 2 slots, and the
//! actors a, b and c run there. The limit is violated already, so [`suspended_limits`] removes it from the problem, and
//! [`circuit`] grounds it as `over :- 3 ≤ {a@u, b@u, c@u, d@u}` with the case `over`. As it stands that case would forbid the
//! current placement. [`grandfathered`] replaces it: `over` is tolerated while no actor joins and the sum does not grow, so
//! that `worse :- 4 ≤ {…}` and `joined :- over, d@u` become the cases, and `over, a@u` counts a as grandfathered, which the
//! first level minimizes. Moving any one of the actors away satisfies the original limit, and the tolerance ends.
//! [`evaluator`] keeps all atoms up to date move by move.

pub(crate) mod circuit;
pub(crate) mod evaluator;
pub(crate) mod grandfathered;
pub(crate) mod ground;
pub(crate) mod suspended_limits;
