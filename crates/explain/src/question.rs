//! A snapshot without some of its limits, with which explanations compare.

use std::collections::BTreeSet;

use crate::change::Change;
use crate::kept_rules::{KeptRules, Policy};
use crate::limit::{Limit, of_case};
use placement::file::{Constraint, Levels, Node, SnapshotFile};
use placement::ix::{ActorIx, IxVec};
use placement::{Criterion, LARGEST, Rules, Snapshot};

/// A snapshot reduced to feasibility: some of the actors, and no costs.
pub(crate) struct Question<'a> {
    snapshot: &'a Snapshot,
    /// The actors that need a place, ascending.
    pub actors: Vec<ActorIx>,
    bare: SnapshotFile,
    policy: Option<Policy<'a>>,
    /// Limits of the file that are represented by rules, with their cases.
    suspended: Vec<(Limit, usize)>,
}

impl<'a> Question<'a> {
    /// Whether `unplaced` and all of `placed` can have a place at once.
    pub fn new(snapshot: &'a Snapshot, unplaced: &[ActorIx], placed: &IxVec<ActorIx, bool>) -> Self {
        let mut takes_part = placed.clone();
        for &actor in unplaced {
            takes_part[actor] = true;
        }
        let actors: Vec<ActorIx> =
            ActorIx::first(snapshot.actors()).filter(|&actor| takes_part[actor]).collect();
        let file = snapshot.file();
        let bare = SnapshotFile {
            version: file.version,
            nodes: file.nodes.clone(),
            units: file.units.clone(),
            actors: actors.iter().map(|&a| file.actors[a.at()].clone()).collect(),
            exchange_cost: file.exchange_cost.clone(),
            objectives: Levels::InOrder(vec![vec![Criterion::Overload]]),
            ..SnapshotFile::default()
        };
        let policy = snapshot.rules().map(|rules| Policy::new(rules, &actors));
        let cases = snapshot.rules().map(Rules::cases).unwrap_or_default().iter().enumerate();
        let suspended = cases
            .filter(|(_, case)| case.limit.is_some())
            .flat_map(|(demand, _)| of_case(snapshot, demand).into_iter().map(move |limit| (limit, demand)));
        Self { snapshot, actors, bare, policy, suspended: suspended.collect() }
    }

    /// The positions of actors in the question.
    pub fn positions(&self, actors: &[ActorIx]) -> Vec<ActorIx> {
        let position = |actor: &ActorIx| self.actors.partition_point(|other| other < actor);
        actors.iter().map(|actor| ActorIx::new(position(actor))).collect()
    }

    /// The policy's rules without `dropped`.
    pub fn rules_without(&self, dropped: &BTreeSet<Limit>) -> KeptRules<'_> {
        let cases = dropped.iter().filter_map(|limit| match limit {
            Limit::Case { demand } => Some(*demand),
            _ => None,
        });
        let suspended = self.suspended.iter().filter(|(limit, _)| dropped.contains(limit));
        KeptRules::new(self.policy.as_ref(), cases.chain(suspended.map(|(_, demand)| *demand)).collect())
    }

    /// The question's snapshot without `dropped`, apart from the policy's rules. Units keep their positions; actors have those of `actors`.
    pub fn without(&self, dropped: &BTreeSet<Limit>) -> Snapshot {
        let snapshot = self.snapshot;
        let mut file = self.bare.clone();
        for limit in dropped {
            match *limit {
                Limit::Slots { unit } => file.units[unit.at()].slots = None,
                Limit::OfUnit { unit, resource } => {
                    file.units[unit.at()].provides.insert(snapshot.resources()[resource].clone(), LARGEST);
                }
                Limit::OfNode { node, resource } => {
                    let id = &snapshot.nodes()[node];
                    let given = file.nodes.iter().position(|node| node.id == *id).unwrap_or_else(|| {
                        file.nodes.push(Node { id: id.clone(), ..Node::default() });
                        file.nodes.len() - 1
                    });
                    file.nodes[given].provides.insert(snapshot.resources()[resource].clone(), LARGEST);
                }
                Limit::Kinds { actor } => self.lift_kinds(actor, &mut file),
                Limit::Constraint { .. } | Limit::Case { .. } => {}
            }
        }
        let constraints = snapshot.file().constraints.iter().enumerate();
        let (kept, constraints): (Vec<usize>, Vec<Constraint>) = constraints
            .filter(|(position, _)| !dropped.contains(&Limit::Constraint { position: *position }))
            .filter_map(|(position, constraint)| Some((position, self.concerning(constraint, dropped)?)))
            .unzip();
        file.constraints = constraints;
        snapshot.reduced(file, &kept).expect("a world with fewer actors and limits is as sound as the whole")
    }

    /// The question's snapshot after some changes; `None` if it is invalid. Existing units and actors keep their positions. An already
    /// violated limit is represented by rules, which do not change: if there are no other rules, changes of such a limit are tested on
    /// the changed snapshot.
    pub fn with(&self, changes: &[Change]) -> Option<Snapshot> {
        let mut file = self.bare.clone();
        file.constraints.clone_from(&self.snapshot.file().constraints);
        for change in changes {
            change.apply(self.snapshot, &mut file);
        }
        let nothing = BTreeSet::new();
        let constraints = std::mem::take(&mut file.constraints);
        let concerning = |(position, constraint)| Some((position, self.concerning(constraint, &nothing)?));
        let (kept, constraints): (Vec<usize>, Vec<Constraint>) =
            constraints.iter().enumerate().filter_map(concerning).unzip();
        file.constraints = constraints;
        self.snapshot.reduced(file, &kept).ok()
    }

    /// An implementation without requirements of its own, for every kind that the actor does not support.
    fn lift_kinds(&self, actor: ActorIx, file: &mut SnapshotFile) {
        let Ok(position) = self.actors.binary_search(&actor) else { return };
        for unit in &self.bare.units {
            file.actors[position].runs_on.entry(unit.kind.clone()).or_default();
        }
    }

    /// A constraint restricted to the actors of the question.
    fn concerning(&self, constraint: &Constraint, dropped: &BTreeSet<Limit>) -> Option<Constraint> {
        let takes_part =
            |id: &String| self.actors.binary_search(&self.snapshot.problem().actor_by_id[id]).is_ok();
        let mut constraint = constraint.clone();
        let matters = match &mut constraint {
            Constraint::Prefer { .. } | Constraint::Avoid { .. } => false,
            Constraint::Reserve { unit, resource, .. } => {
                // Dropping a resource's limit drops its reservations too.
                let unit = self.snapshot.problem().unit_by_id[unit];
                let resource = self.snapshot.problem().resource(resource);
                !dropped.contains(&Limit::OfUnit { unit, resource })
            }
            other => {
                let names_no_actor = other.actors().is_empty();
                other.retain_actors(takes_part);
                names_no_actor || other.actors().iter().any(takes_part)
            }
        };
        matters.then_some(constraint)
    }
}
