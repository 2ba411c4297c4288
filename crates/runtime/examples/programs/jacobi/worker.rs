//! A worker: its steps, and the exchange of the faces of its box with its neighbours.

use std::sync::{Arc, Mutex};

use runtime::{
    CommunicationManager, Error, GlobalSlot, LocalSlot, Memcpy,
    frontends::tasking::{Task, Tasking},
};

use super::{Region, Stencil};

/// A side of a worker's box that has a neighbour.
pub struct Face {
    pub axis: usize,
    /// 0 below, 1 above.
    pub side: usize,
    /// The halo that receives the neighbour's points, and the remote halo for its own, by the step's parity.
    pub halos: [LocalSlot; 2],
    pub theirs: [GlobalSlot; 2],
    /// Staging for points to send; planes of x need none, as they are contiguous.
    pub gathered: Option<LocalSlot>,
}

/// A worker: its box, surrounded by `reach` points of its neighbours or of the fixed boundary.
pub struct Worker {
    /// Number of computed points along each axis.
    pub size: [usize; 3],
    pub stencil: Stencil,
    pub iterations: usize,
    pub grids: [LocalSlot; 2],
    pub faces: Vec<Face>,
    pub communication: Arc<dyn CommunicationManager>,
}

/// One part of a worker's work for a step.
#[derive(Clone, Copy)]
enum Part {
    Step(usize),
    /// This step and the interior of the next.
    TwoSteps(usize),
    Ends(usize),
    Exchange(usize),
}

impl Part {
    fn name(self) -> &'static str {
        match self {
            Self::Step(_) => "step",
            Self::TwoSteps(_) => "two steps",
            Self::Ends(_) => "ends",
            Self::Exchange(_) => "exchange",
        }
    }
}

impl Worker {
    /// All points that it computes, in coordinates of its grids.
    fn own(&self) -> Region {
        let reach = self.stencil.reach;
        self.size.map(|size| reach..reach + size)
    }

    /// The points at a face: its own, and the adjacent ones of the neighbour.
    fn beside(&self, face: &Face) -> [Region; 2] {
        let reach = self.stencil.reach;
        let range = &self.own()[face.axis];
        let ranges = if face.side == 0 {
            [range.start..range.start + reach, 0..reach]
        } else {
            [range.end - reach..range.end, range.end..range.end + reach]
        };
        ranges.map(|range| {
            let mut region = self.own();
            region[face.axis] = range;
            region
        })
    }

    /// The part of a step that needs no points of the neighbours, and the rest of it, as disjoint boxes.
    /// The first is empty if the box is too thin.
    fn inner_and_ends(&self) -> Option<(Region, Vec<Region>)> {
        let (mut inner, mut ends) = (self.own(), Vec::new());
        for face in &self.faces {
            let [mut end, _] = self.beside(face);
            end[..face.axis].clone_from_slice(&inner[..face.axis]);
            let range = &mut inner[face.axis];
            if face.side == 0 {
                range.start = end[face.axis].end;
            } else {
                range.end = end[face.axis].start;
            }
            ends.push(end);
        }
        inner.iter().all(|range| range.start <= range.end).then_some((inner, ends))
    }

    /// All its work, in order.
    fn parts(&self) -> Vec<Part> {
        let thin = self.inner_and_ends().is_none();
        let mut parts = Vec::new();
        let mut step = 0;
        while step < self.iterations {
            if step + 1 == self.iterations || thin {
                parts.extend([Part::Step(step), Part::Exchange(step)]);
                step += 1;
            } else {
                let next = step + 1;
                parts.extend([
                    Part::TwoSteps(step),
                    Part::Exchange(step),
                    Part::Ends(next),
                    Part::Exchange(next),
                ]);
                step += 2;
            }
        }
        parts
    }

    fn run(&mut self, part: Part) -> Result<(), Error> {
        let (Part::Step(step) | Part::TwoSteps(step) | Part::Ends(step) | Part::Exchange(step)) = part;
        let (stencil, own) = (self.stencil, self.own());
        let inner_and_ends = self.inner_and_ends();
        let [one, two] = &mut self.grids;
        let (old, new) = if step.is_multiple_of(2) { (one, two) } else { (two, one) };
        match (part, inner_and_ends) {
            (Part::Exchange(_), _) => return self.exchange(step),
            (Part::TwoSteps(_), Some((inner, _))) => {
                stencil.two_steps(old.values_mut()?, new.values_mut()?, &own, &inner);
            }
            (Part::Ends(_), Some((_, ends))) => {
                let (old, new) = (old.values_mut()?, new.values_mut()?);
                for end in &ends {
                    stencil.step(old, new, end);
                }
            }
            _ => stencil.step(old.values_mut()?, new.values_mut()?, &own),
        }
        Ok(())
    }

    /// The points that it computed.
    fn result(&mut self) -> Result<Vec<f64>, Error> {
        let own = self.own();
        let points = self.grids[self.iterations % 2].values_mut::<f64>()?;
        Ok(self.stencil.rows_of(&own).flat_map(|row| points[row].iter().copied()).collect())
    }

    /// Sends the points at its faces written by `step` to the neighbours, and receives theirs into its grid.
    fn exchange(&mut self, step: usize) -> Result<(), Error> {
        let (parity, at) = (step % 2, (step + 1) % 2);
        let both: Vec<_> = self.faces.iter().map(|face| self.beside(face)).collect();
        let new = self.grids[at].values_mut::<f64>()?;
        for (face, [own, _]) in self.faces.iter_mut().zip(&both) {
            let Some(gathered) = &mut face.gathered else { continue };
            let mut rest = gathered.values_mut::<f64>()?;
            for row in self.stencil.rows_of(own) {
                let (target, after) = rest.split_at_mut(row.len());
                target.copy_from_slice(&new[row]);
                rest = after;
            }
        }
        let new = &self.grids[at];
        let plane = self.stencil.at(1, 0, 0) * size_of::<f64>();
        let mut sent = 0;
        for (face, [own, _]) in self.faces.iter().zip(&both) {
            let (from, offset) = match &face.gathered {
                Some(gathered) => (gathered, 0),
                None => (new, own[0].start * plane),
            };
            sent += u64::from(face.gathered.is_none());
            self.communication.memcpy(&face.theirs[parity], 0, from, offset, face.halos[parity].size())?;
        }
        for (face, [_, outer]) in self.faces.iter().zip(&both) {
            let halo = &face.halos[parity];
            self.communication.fence(halo.into(), 0, 1)?.done()?;
            if face.gathered.is_none() {
                self.communication.memcpy(new, outer[0].start * plane, halo, 0, halo.size())?;
                self.communication.fence(new.into(), 0, 1)?.done()?;
            }
        }
        // The grid can be lent again once its planes have arrived.
        self.communication.fence(new.into(), sent, 0)?.done()?;
        let new = self.grids[at].values_mut::<f64>()?;
        for (face, [_, outer]) in self.faces.iter().zip(&both) {
            let (Some(gathered), halo) = (&face.gathered, &face.halos[parity]) else { continue };
            self.communication.fence(gathered.into(), 1, 0)?.done()?;
            let points = halo.read_values::<f64>(0, halo.size() / size_of::<f64>())?;
            let mut rest = points.as_slice();
            for row in self.stencil.rows_of(outer) {
                let (source, after) = rest.split_at(row.len());
                new[row].copy_from_slice(source);
                rest = after;
            }
        }
        Ok(())
    }
}

/// A worker, or the error that stopped it.
pub struct Done(Arc<Mutex<Result<Worker, Error>>>);

impl Done {
    /// The computed points.
    pub fn result(self) -> Result<Vec<f64>, Error> {
        let mut worker = self.0.lock().map_err(|_| Error::misuse("solve", "a worker panicked"))?;
        std::mem::replace(&mut *worker, Err(Error::Gone("the worker".into())))?.result()
    }
}

/// Creates a chain of tasks for all work of a worker, on the worker thread `index`.
pub fn spawn(tasking: &Tasking, index: usize, worker: Worker) -> Result<Done, Error> {
    let parts = worker.parts();
    let done = Arc::new(Mutex::new(Ok(worker)));
    let mut before: Option<Task> = None;
    for part in parts {
        let shared = Arc::clone(&done);
        let task = tasking.task(part.name(), Some(index), None, move |_| {
            let mut worker = shared.lock().expect("uncontended, and a panicking task ends the chain");
            let failed = worker.as_mut().ok().and_then(|worker| worker.run(part).err());
            if let Some(error) = failed {
                *worker = Err(error);
            }
        })?;
        if let Some(before) = &before {
            task.depends_on(before)?;
        }
        tasking.spawn(&task)?;
        before = Some(task);
    }
    Ok(Done(done))
}
