//! The stencils: one step of a box of points, and two fused steps.

use std::ops::Range;

/// A box of points: a range along each axis, x first.
pub type Region = [Range<usize>; 3];

/// A stencil on a grid stored row by row: x outermost, z along a row.
#[derive(Clone, Copy, Debug)]
pub struct Stencil {
    /// The reach along each axis: 1 makes 7 points, 2 makes 13.
    pub reach: usize,
    /// Rows per plane.
    pub rows: usize,
    /// Points per row.
    pub row: usize,
}

impl Stencil {
    /// Number of points that it reads.
    pub fn points(&self) -> usize {
        1 + 6 * self.reach
    }

    /// The index of a point.
    pub fn at(&self, x: usize, y: usize, z: usize) -> usize {
        (x * self.rows + y) * self.row + z
    }

    /// The index ranges of the rows of `region`, in order.
    pub fn rows_of(self, region: &Region) -> impl Iterator<Item = Range<usize>> {
        let [x, y, z] = region.clone();
        x.flat_map(move |x| y.clone().map(move |y| (x, y)))
            .map(move |(x, y)| self.at(x, y, z.start)..self.at(x, y, z.end))
    }

    /// One step for the points `region` of `old`, into `new`. The order of summation is fixed, so that every
    /// split, and every vector width, gives the same bits.
    #[allow(clippy::cast_precision_loss, reason = "it is 7 or 13")]
    pub fn step(self, old: &[f64], new: &mut [f64], region: &Region) {
        let plane = if self.reach == 1 { seven } else { thirteen };
        let scale = 1.0 / self.points() as f64;
        let [x, y, z] = region.clone();
        x.for_each(|x| plane(self, scale, old, new, x, y.clone(), z.clone()));
    }

    /// One step for the points `first` of `old` into `new`, followed by another for the points `second` among them
    /// back into `old`. All points of `new` that `second` reads outside of `first` must be computed already.
    pub fn two_steps(self, old: &mut [f64], new: &mut [f64], first: &Region, second: &Region) {
        let ([ahead, y, z], [behind, rows, row]) = (first.clone(), second.clone());
        let one = |x: usize| [x..x + 1, y.clone(), z.clone()];
        let other = |x: usize| [x..x + 1, rows.clone(), row.clone()];
        let last = ahead.end;
        let mut behind = behind.peekable();
        for x in ahead {
            self.step(old, new, &one(x));
            // The last read of plane `x - reach` of `old` is done.
            while let Some(x) = behind.next_if(|behind| behind + self.reach <= x || x + 1 == last) {
                self.step(new, old, &other(x));
            }
        }
    }
}

/// One step of plane `x` with 7 points, with the vector instructions available at run time.
#[multiversion::multiversion(targets("x86_64+avx2"))]
fn seven(
    it: Stencil,
    scale: f64,
    old: &[f64],
    new: &mut [f64],
    x: usize,
    rows: Range<usize>,
    row: Range<usize>,
) {
    let plane = it.rows * it.row;
    for y in rows {
        let middle = x * plane + y * it.row + row.start;
        let target = &mut new[middle..middle + row.len()];
        let at = |offset: usize| &old[offset..offset + target.len()];
        let (here, low, high) = (at(middle), at(middle - 1), at(middle + 1));
        let (up, down) = (at(middle - it.row), at(middle + it.row));
        let (before, after) = (at(middle - plane), at(middle + plane));
        for (z, target) in target.iter_mut().enumerate() {
            *target = (here[z] + low[z] + high[z] + up[z] + down[z] + before[z] + after[z]) * scale;
        }
    }
}

/// As [`seven`], with 13 points.
#[multiversion::multiversion(targets("x86_64+avx2"))]
fn thirteen(
    it: Stencil,
    scale: f64,
    old: &[f64],
    new: &mut [f64],
    x: usize,
    rows: Range<usize>,
    row: Range<usize>,
) {
    let plane = it.rows * it.row;
    for y in rows {
        let middle = x * plane + y * it.row + row.start;
        let target = &mut new[middle..middle + row.len()];
        let at = |offset: usize| &old[offset..offset + target.len()];
        let both =
            |far: usize| [at(middle - far), at(middle + far), at(middle - 2 * far), at(middle + 2 * far)];
        let (here, [low, high, lowest, highest]) = (at(middle), both(1));
        let ([up, down, top, bottom], [before, after, first, last]) = (both(it.row), both(plane));
        for (z, target) in target.iter_mut().enumerate() {
            let along = low[z] + high[z] + lowest[z] + highest[z];
            let sum = here[z] + along + (up[z] + down[z] + top[z] + bottom[z]);
            *target = (sum + (before[z] + after[z] + first[z] + last[z])) * scale;
        }
    }
}
