//! The network of the inference test as kernels: one work item per output of each image.

use opencl::{Argument, Managers};
use runtime::{
    CommunicationManager as _, ComputeManager, Error, ExecutionUnit, Kernel, LocalSlot, Memcpy as _,
    MemoryManager as _, TopologyManager as _, UnitStatus, backends::host,
};

use crate::network::{LAYERS, Network, POINTS};

const SOURCE: &str = "
kernel void dense(global const float *weights, global const float *inputs, global const float *others,
                  global float *outputs, uint from, uint relu, uint both) {
    size_t to = get_global_size(0), output = get_global_id(0), image = get_global_id(1);
    global const float *row = weights + output * (from + 1);
    float sum = row[0];
    for (uint at = 0; at < from; at++) {
        float input = inputs[image * from + at];
        if (both) input = fmax(input + others[image * from + at], 0.0f);
        sum += row[1 + at] * input;
    }
    outputs[image * to + output] = relu ? fmax(sum, 0.0f) : sum;
}
";

/// The ten scores of each image, in batches, on the first device.
pub fn infer(
    device: &Managers,
    host: &host::Managers,
    network: &Network,
    images: &[f32],
    batch: usize,
) -> Result<Vec<f32>, Error> {
    let topology = device.topology.query()?;
    let none = || Error::misuse("infer on a device", "there is none");
    let space = &topology.devices.first().ok_or_else(none)?.memory_spaces[0];
    let near = host.topology.query()?.devices[0].memory_spaces[0].clone();
    let unit = device.compute.create_processing_unit(&topology.devices[0].compute_resources[0])?;
    device.compute.initialize(&unit)?;
    let staging = host.memory.allocate(&near, batch * 128 * 4)?;
    let copies = &device.communication;
    let upload = |to: &LocalSlot, values: &[f32]| -> Result<(), Error> {
        for (piece, at) in values.chunks(batch * 128).zip((0..).step_by(batch * 128 * 4)) {
            let bytes: Vec<u8> = piece.iter().flat_map(|value| value.to_ne_bytes()).collect();
            staging.write(0, &bytes)?;
            copies.memcpy(to, at, &staging, 0, bytes.len())?;
            copies.fence((&staging).into(), 1, 0)?.done()?;
        }
        Ok(())
    };
    let mut weights = Vec::new();
    for layer in &network.0 {
        let slot = device.memory.allocate(space, layer.len() * 4)?;
        upload(&slot, layer)?;
        weights.push(slot);
    }
    let buffer = |width: usize| device.memory.allocate(space, batch * width * 4);
    let (inputs, hidden, long, short, shorter, scores) =
        (buffer(64)?, buffer(128)?, buffer(64)?, buffer(32)?, buffer(32)?, buffer(10)?);
    let run = |layer: usize, count: usize, from: &LocalSlot, other: Option<&LocalSlot>, to: &LocalSlot| {
        let (wide, outputs) = LAYERS[layer];
        let range = [outputs, count, 1];
        let kernel = Kernel { source: SOURCE.into(), name: "dense".into(), range };
        let number = |number: usize| Argument::U32(u32::try_from(number).unwrap_or(0));
        let arguments = vec![
            Argument::slot(&weights[layer])?,
            Argument::slot(from)?,
            Argument::slot(other.unwrap_or(from))?,
            Argument::slot(to)?,
            number(wide),
            number(usize::from(layer < 2)),
            number(usize::from(other.is_some())),
        ];
        let state =
            device.compute.create_execution_state(&ExecutionUnit::kernel(kernel), Box::new(arguments))?;
        // A unit is Ready a moment after its state has finished.
        while unit.status() != UnitStatus::Ready {
            std::thread::yield_now();
        }
        device.compute.start(&unit, &state)?;
        device.compute.wait(&state).done()?;
        state.take::<()>()
    };
    let mut all = Vec::new();
    for images in images.chunks(batch * POINTS) {
        let count = images.len() / POINTS;
        upload(&inputs, images)?;
        run(0, count, &inputs, None, &hidden)?;
        run(1, count, &hidden, None, &long)?;
        run(2, count, &long, None, &short)?;
        run(3, count, &hidden, None, &shorter)?;
        run(4, count, &short, Some(&shorter), &scores)?;
        copies.memcpy(&staging, 0, &scores, 0, count * 10 * 4)?;
        copies.fence((&staging).into(), 0, 1)?.done()?;
        let mut bytes = vec![0; count * 10 * 4];
        staging.read(0, &mut bytes)?;
        all.extend(bytes.as_chunks::<4>().0.iter().map(|bytes| f32::from_ne_bytes(*bytes)));
    }
    device.compute.finalize(&unit)?;
    Ok(all)
}
