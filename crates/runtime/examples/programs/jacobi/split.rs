//! The division of the cube into px × py × pz boxes, one per worker.

use std::{fmt, str::FromStr};

use runtime::Error;

use super::{Problem, Region};

/// Number of parts along each axis. Parts are numbered along z first, then y, then x; each Instance has as many
/// consecutive parts as workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Split(pub [usize; 3]);

impl Split {
    /// One slab per worker.
    pub fn slabs(workers: usize) -> Self {
        Self([workers, 1, 1])
    }

    /// Checks whether `workers` can solve `problem` with this split.
    pub fn check(self, problem: Problem, workers: usize) -> Result<(), Error> {
        let Problem { edge, reach, .. } = problem;
        let refuse = |why: String| Err(Error::misuse("split the cube", why));
        if !(1..=2).contains(&reach) {
            return refuse(format!("a stencil reaches 1 point (7 in all) or 2 (13), not {reach}"));
        }
        let inner = edge.saturating_sub(2 * reach);
        if inner == 0 {
            let least = 2 * reach + 1;
            return refuse(format!(
                "of {edge} points on an edge none is inside the boundary of {reach}; give it at least {least}"
            ));
        }
        for (axis, parts) in ["x", "y", "z"].into_iter().zip(self.0) {
            let most = (inner / reach).max(1);
            if !(1..=most).contains(&parts) {
                return refuse(format!(
                    "{self} cuts the {inner} points inside along {axis} into {parts}, and each part needs {reach} or more; \
                     cut it into 1 to {most}"
                ));
            }
        }
        let parts: usize = self.0.iter().product();
        if parts != workers {
            return refuse(format!(
                "{self} makes {parts} parts, and there are {workers} workers; make one for each"
            ));
        }
        Ok(())
    }

    /// The coordinates of a part.
    fn place(self, part: usize) -> [usize; 3] {
        let [_, y, z] = self.0;
        [part / (y * z), part / z % y, part % z]
    }

    /// The points computed by the worker of a part.
    pub fn region(self, problem: Problem, part: usize) -> Region {
        let inner = problem.edge - 2 * problem.reach;
        let place = self.place(part);
        std::array::from_fn(|axis| {
            let cut = |index: usize| problem.reach + index * inner / self.0[axis];
            cut(place[axis])..cut(place[axis] + 1)
        })
    }

    /// The adjacent part, below (`side` 0) or above (1) along an axis.
    pub fn neighbour(self, part: usize, axis: usize, side: usize) -> Option<usize> {
        let place = self.place(part)[axis];
        let far: usize = self.0[axis + 1..].iter().product();
        if side == 0 {
            (place > 0).then(|| part - far)
        } else {
            (place + 1 < self.0[axis]).then(|| part + far)
        }
    }
}

impl fmt::Display for Split {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let [x, y, z] = self.0;
        write!(f, "{x}x{y}x{z}")
    }
}

impl FromStr for Split {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let parts: Option<Vec<usize>> = text.split('x').map(|part| part.parse().ok()).collect();
        let parts = parts.and_then(|parts| parts.try_into().ok());
        parts.map(Self).ok_or_else(|| {
            Error::misuse("split the cube", format!("{text:?} is not of the form PXxPYxPZ, as 1x2x2 is"))
        })
    }
}
