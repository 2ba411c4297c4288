//! Symmetry breaking among identical units: which of a class hosts an actor makes no difference, so only one order is
//! searched.

use std::collections::{BTreeMap, BTreeSet};

use placement::ix::{ActorIx, UnitIx};
use placement::room::Rooms;
use placement::{Assignment, Snapshot, symmetry_classes};

/// Identical units, in classes.
pub(crate) struct Symmetry {
    /// Each of two or more units, ascending.
    classes: Vec<Vec<UnitIx>>,
    /// Movable actors, in the order in which they open units.
    movable: Vec<ActorIx>,
}

impl Symmetry {
    /// The classes of a snapshot; none if a policy's rules can distinguish any two units.
    pub fn new(snapshot: &Snapshot, rooms: &Rooms) -> Self {
        let mut classes =
            if snapshot.rules().is_some() { Vec::new() } else { symmetry_classes(snapshot, rooms) };
        classes.retain(|class| class.len() > 1);
        Self { classes, movable: snapshot.problem().movable.clone() }
    }

    /// Units that are never needed: those beyond as many of a class as there are actors.
    pub fn spare(&self) -> BTreeSet<UnitIx> {
        self.classes.iter().flat_map(|class| class.iter().skip(self.movable.len())).copied().collect()
    }

    /// Each needed unit, with the unit of its class that must be opened before it.
    pub fn in_order(&self) -> impl Iterator<Item = (UnitIx, UnitIx)> {
        let needed = |class: &'_ Vec<UnitIx>| class.len().min(self.movable.len());
        self.classes
            .iter()
            .flat_map(move |class| class[..needed(class)].windows(2).map(|two| (two[0], two[1])))
    }

    /// An equivalent assignment in which the units of each class are opened in order.
    pub fn ordered(&self, assignment: &Assignment) -> Assignment {
        let mut ordered = assignment.clone();
        for class in &self.classes {
            let mut names = BTreeMap::new();
            for actor in &self.movable {
                let unit = assignment[*actor];
                if let Some(unit) = unit.filter(|unit| class.binary_search(unit).is_ok()) {
                    let next = names.len();
                    ordered[*actor] = Some(class[*names.entry(unit).or_insert(next)]);
                }
            }
        }
        ordered
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_one_class(actors: usize) -> Symmetry {
        let class = [1, 3, 4].map(UnitIx::new).to_vec();
        Symmetry { classes: vec![class], movable: ActorIx::first(actors).collect() }
    }

    #[test]
    fn an_assignment_is_ordered_and_no_worse() {
        let symmetry = of_one_class(4);
        let at =
            |units: [usize; 4]| -> Assignment { units.map(|unit| Some(UnitIx::new(unit))).to_vec().into() };
        assert_eq!(symmetry.ordered(&at([4, 0, 1, 4])), at([1, 0, 3, 1]));
        let pairs: Vec<(usize, usize)> = symmetry.in_order().map(|(a, b)| (a.at(), b.at())).collect();
        assert_eq!(pairs, [(1, 3), (3, 4)]);
        assert!(symmetry.spare().is_empty());
        assert_eq!(of_one_class(1).spare(), [3, 4].map(UnitIx::new).into());
    }
}
