//! Typed positions, and vectors indexed by them.
//!
//! A position is a 32-bit number whose type names its list, so that an actor's position cannot index the units. After
//! compilation nothing of that is left: indexing an [`IxVec`] is indexing a slice.
//!
//! ```
//! use placement::ix::{ActorIx, IxVec, UnitIx};
//!
//! let capacity: IxVec<UnitIx, i64> = [8, 64].into_iter().collect();
//! assert_eq!(capacity[UnitIx::new(1)], 64);
//! ```
//!
//! An actor's position where a unit's is wanted does not compile:
//!
//! ```compile_fail
//! use placement::ix::{ActorIx, IxVec, UnitIx};
//!
//! let capacity: IxVec<UnitIx, i64> = [8, 64].into_iter().collect();
//! assert_eq!(capacity[ActorIx::new(1)], 64);
//! ```
//!
//! Neither do swapped arguments:
//!
//! ```compile_fail
//! use placement::ix::{ActorIx, UnitIx};
//! use placement::State;
//!
//! fn put(state: &mut State, actor: ActorIx, unit: UnitIx) {
//!     state.put(unit, actor);
//! }
//! ```
//!
//! ```compile_fail
//! use placement::ix::{ActorIx, UnitIx};
//! use placement::{Assignment, Snapshot};
//!
//! fn work(snapshot: &Snapshot, assignment: &Assignment, unit: UnitIx) -> Option<i64> {
//!     Some(snapshot.implementation(assignment[unit]?, unit)?.work)
//! }
//! ```

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Index, IndexMut};

use serde::{Deserialize, Serialize};

/// A position in one kind of list.
pub trait Ix: Copy + Eq + Ord + fmt::Debug {
    /// The position of this number.
    fn new(position: usize) -> Self;

    /// The number.
    fn at(self) -> usize;
}

macro_rules! positions {
    ($($name:ident: $what:literal;)*) => {$(
        #[doc = concat!("The position of ", $what, ".")]
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub struct $name(u32);

        impl $name {
            /// A sentinel for "none": no list is this long.
            pub const NONE: Self = Self(u32::MAX);

            /// The position of this number.
            ///
            /// # Panics
            /// If the number exceeds 32 bits, which no list of a checked snapshot does.
            #[inline]
            pub fn new(position: usize) -> Self {
                Self(u32::try_from(position).expect("lists of a checked snapshot are far shorter than 2^32"))
            }

            /// The number.
            #[inline]
            pub const fn at(self) -> usize {
                self.0 as usize
            }

            /// The number in its stored type.
            #[inline]
            pub const fn raw(self) -> u32 {
                self.0
            }

            /// The positions of the first `count`, ascending.
            pub fn first(
                count: usize,
            ) -> impl DoubleEndedIterator<Item = Self> + ExactSizeIterator + Clone {
                (0..count).map(Self::new)
            }
        }

        impl Ix for $name {
            #[inline]
            fn new(position: usize) -> Self {
                Self::new(position)
            }

            #[inline]
            fn at(self) -> usize {
                self.at()
            }
        }
    )*};
}

positions! {
    ActorIx: "an actor in the snapshot";
    UnitIx: "a unit in the snapshot";
    NodeIx: "a node, by name";
    KindIx: "a kind of unit, by name";
    ResourceIx: "a resource, by name";
    GroupIx: "a group of actors";
    EndIx: "a group that channels between groups end in";
    PlaceIx: "a place within a scope or under a cap: equal positions mean the same place";
    RelationIx: "an `apart` or `together`";
    RuleIx: "a rule about where single actors may be";
    SetIx: "a set of units";
    ItemIx: "what a search moves as one: an actor, or actors that must share a unit";
}

/// A vector that is indexed by one kind of position.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
pub struct IxVec<I, T> {
    raw: Vec<T>,
    by: PhantomData<fn() -> I>,
}

impl<I: Ix, T> IxVec<I, T> {
    /// An empty vector.
    pub const fn new() -> Self {
        Self { raw: Vec::new(), by: PhantomData }
    }

    /// A number of equal entries.
    pub fn of(entry: T, count: usize) -> Self
    where
        T: Clone,
    {
        vec![entry; count].into()
    }

    /// Appends an entry, and returns its position.
    pub fn push(&mut self, entry: T) -> I {
        let position = I::new(self.raw.len());
        self.raw.push(entry);
        position
    }

    /// The number of entries.
    #[inline]
    pub fn len(&self) -> usize {
        self.raw.len()
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.raw.is_empty()
    }

    /// Every position, ascending.
    pub fn positions(&self) -> impl DoubleEndedIterator<Item = I> + ExactSizeIterator + Clone + use<I, T> {
        (0..self.raw.len()).map(I::new)
    }

    /// Every entry with its position.
    pub fn enumerate(&self) -> impl DoubleEndedIterator<Item = (I, &T)> + ExactSizeIterator + Clone {
        self.raw.iter().enumerate().map(|(position, entry)| (I::new(position), entry))
    }

    /// Every entry.
    pub fn iter(&self) -> std::slice::Iter<'_, T> {
        self.raw.iter()
    }

    /// Every entry, mutably.
    pub fn iter_mut(&mut self) -> std::slice::IterMut<'_, T> {
        self.raw.iter_mut()
    }

    /// The entry at a position, if it exists.
    #[inline]
    pub fn get(&self, position: I) -> Option<&T> {
        self.raw.get(position.at())
    }

    /// The same, mutably.
    pub fn get_mut(&mut self, position: I) -> Option<&mut T> {
        self.raw.get_mut(position.at())
    }

    /// The entries as a slice.
    #[inline]
    pub fn raw(&self) -> &[T] {
        &self.raw
    }
}

impl<I: Ix, T> Index<I> for IxVec<I, T> {
    type Output = T;

    #[inline]
    fn index(&self, position: I) -> &T {
        &self.raw[position.at()]
    }
}

impl<I: Ix, T> IndexMut<I> for IxVec<I, T> {
    #[inline]
    fn index_mut(&mut self, position: I) -> &mut T {
        &mut self.raw[position.at()]
    }
}

impl<I, T> From<Vec<T>> for IxVec<I, T> {
    fn from(raw: Vec<T>) -> Self {
        Self { raw, by: PhantomData }
    }
}

impl<I, T> FromIterator<T> for IxVec<I, T> {
    fn from_iter<E: IntoIterator<Item = T>>(entries: E) -> Self {
        Vec::from_iter(entries).into()
    }
}

impl<I, T> Extend<T> for IxVec<I, T> {
    fn extend<E: IntoIterator<Item = T>>(&mut self, entries: E) {
        self.raw.extend(entries);
    }
}

impl<I: Ix, T> IntoIterator for IxVec<I, T> {
    type Item = T;
    type IntoIter = std::vec::IntoIter<T>;

    fn into_iter(self) -> Self::IntoIter {
        self.raw.into_iter()
    }
}

impl<'a, I: Ix, T> IntoIterator for &'a IxVec<I, T> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<'a, I: Ix, T> IntoIterator for &'a mut IxVec<I, T> {
    type Item = &'a mut T;
    type IntoIter = std::slice::IterMut<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter_mut()
    }
}

// Not derived: a derive would put the same bound on the position's type.
impl<I, T: Clone> Clone for IxVec<I, T> {
    fn clone(&self) -> Self {
        self.raw.clone().into()
    }

    fn clone_from(&mut self, from: &Self) {
        self.raw.clone_from(&from.raw);
    }
}

impl<I, T> Default for IxVec<I, T> {
    fn default() -> Self {
        Vec::new().into()
    }
}

impl<I, T: fmt::Debug> fmt::Debug for IxVec<I, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.raw.fmt(f)
    }
}
