//! The published predicates of the policy language; a test compares them with docs/reference/policy-language.md.

/// The sort of one term of a predicate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sort {
    /// `a("namespace","application","actor")`; one string if the id has another shape.
    Actor,
    /// A string: the name of a unit, a node, a kind, a label.
    Name,
    /// An integer.
    Number,
    /// `unit`, `numa`, `node` or `zone`.
    Level,
}

/// The origin of a predicate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// A fact of the snapshot.
    Fact,
    /// The placement of actors.
    Placement,
    /// A conclusion of the policy.
    Policy,
}

/// A published predicate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Word {
    pub name: &'static str,
    pub sorts: &'static [Sort],
    pub source: Source,
    /// Its syntax, with the names of its terms.
    pub form: &'static str,
}

use Sort::{Actor, Level, Name, Number};
use Source::{Fact, Placement, Policy};

const fn word(name: &'static str, sorts: &'static [Sort], source: Source, form: &'static str) -> Word {
    Word { name, sorts, source, form }
}

/// Every published predicate.
pub(crate) const WORDS: &[Word] = &[
    word("actor", &[Actor], Fact, "actor(A)"),
    word("app", &[Actor, Name], Fact, "app(A,\"namespace/application\")"),
    word("group", &[Actor, Name], Fact, "group(A,G)"),
    word("actor_label", &[Actor, Name, Name], Fact, "actor_label(A,Key,Value)"),
    word("fixed", &[Actor], Fact, "fixed(A)"),
    word("current", &[Actor, Name], Fact, "current(A,U)"),
    word("move_cost", &[Actor, Number], Fact, "move_cost(A,C)"),
    word("cu", &[Name], Fact, "cu(U)"),
    word("cu_kind", &[Name, Name], Fact, "cu_kind(U,Kind)"),
    word("cu_node", &[Name, Name], Fact, "cu_node(U,Node)"),
    word("cu_zone", &[Name, Name], Fact, "cu_zone(U,Zone)"),
    word("cu_numa", &[Name, Name], Fact, "cu_numa(U,Domain)"),
    word("cu_pool", &[Name, Name], Fact, "cu_pool(U,Pool)"),
    word("cu_power", &[Name, Number, Number], Fact, "cu_power(U,Idle,Busy)"),
    word("cu_capacity", &[Name, Number], Fact, "cu_capacity(U,W)"),
    word("cu_provides", &[Name, Name, Number], Fact, "cu_provides(U,Resource,Q)"),
    word("cu_slots", &[Name, Number], Fact, "cu_slots(U,N)"),
    word("node_label", &[Name, Name, Name], Fact, "node_label(Node,Key,Value)"),
    word("node_provides", &[Name, Name, Number], Fact, "node_provides(Node,Resource,Q)"),
    word("runs_on_kind", &[Actor, Name], Fact, "runs_on_kind(A,Kind)"),
    word("work", &[Actor, Name, Number], Fact, "work(A,Kind,W)"),
    word("requires", &[Actor, Name, Name, Number], Fact, "requires(A,Kind,Resource,Q)"),
    word("node_requires", &[Actor, Name, Name, Number], Fact, "node_requires(A,Kind,Resource,Q)"),
    word("runnable_on", &[Actor, Name], Fact, "runnable_on(A,U)"),
    word("workload", &[Actor, Name, Number], Fact, "workload(A,U,W)"),
    word("msg_exch_rate", &[Actor, Actor, Number], Fact, "msg_exch_rate(A,B,R)"),
    word("mutual_annoyance", &[Actor, Actor, Number], Fact, "mutual_annoyance(A,B,N)"),
    word("interferes", &[Actor, Actor, Number], Fact, "interferes(A,B,N)"),
    word("kind_cost", &[Name, Name, Number], Fact, "kind_cost(Kind,Kind2,C)"),
    word("other_numa", &[Number], Fact, "other_numa(C)"),
    word("other_node", &[Number], Fact, "other_node(C)"),
    word("other_zone", &[Number], Fact, "other_zone(C)"),
    word("msg_exch_cost", &[Name, Name, Number], Fact, "msg_exch_cost(U,V,C)"),
    word("run_on", &[Actor, Name], Placement, "run_on(A,U)"),
    word("unplaced", &[Actor], Placement, "unplaced(A)"),
    word("forbid", &[Actor, Name], Policy, "forbid(A,U)"),
    word("pin", &[Actor, Name], Policy, "pin(A,U)"),
    word("prefer", &[Actor, Name, Number], Policy, "prefer(A,U,Weight)"),
    word("apart", &[Actor, Actor, Level], Policy, "apart(A,B,Level)"),
    word("together", &[Actor, Actor, Level], Policy, "together(A,B,Level)"),
    word("reserve", &[Name, Name, Number], Policy, "reserve(U,Resource,Q)"),
];

/// Levels of topology domains.
pub(crate) const LEVELS: [&str; 4] = ["unit", "numa", "node", "zone"];

/// Conclusions of the APO paper's program that a policy cannot read, with alternatives.
pub(crate) const CONCLUSIONS: [(&str, &str); 5] = [
    ("cu_workload", "write `#sum { W,A : run_on(A,U), workload(A,U,W) }`"),
    ("cu_overload", "the objective `overload` makes it small"),
    ("max_overload", "the objective `overload` makes it small"),
    ("min_overload", "the objective `overload` makes it small"),
    (
        "a_cc",
        "the objective `communication` makes it small; msg_exch_rate(A,B,R) and run_on(A,U) tell who talks across what",
    ),
];

/// The published predicate of a name.
pub(crate) fn published(name: &str) -> Option<&'static Word> {
    WORDS.iter().find(|word| word.name == name)
}

/// The most similar known name, if one is close enough.
pub(crate) fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let most = 1 + name.len() / 5;
    // A distance is at least the difference in length.
    let known = known.filter(|other| other.len().abs_diff(name.len()) <= most);
    let near = known.map(|other| (distance(name, other), other)).min()?;
    (near.0 <= most).then_some(near.1)
}

/// Levenshtein's distance, over bytes.
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.bytes().enumerate() {
            let replaced = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}
