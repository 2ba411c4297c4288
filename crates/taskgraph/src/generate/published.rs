//! What the semi-static paper prints: its profiles, mappings and runs, to compare with.

/// α, β, γ and μ after iterations 0 … 20 (Table 2, profile A: 5 % a step).
pub const PROFILE_A: [[f64; 4]; 21] = [
    [3000.0, 15.0, 300.0, 60.0],
    [2821.0, 15.0, 287.0, 63.0],
    [2949.0, 12.0, 302.0, 65.0],
    [3073.0, 12.0, 286.0, 68.0],
    [3228.0, 11.0, 273.0, 71.0],
    [3090.0, 13.0, 258.0, 67.0],
    [3256.0, 11.0, 272.0, 70.0],
    [3424.0, 16.0, 259.0, 73.0],
    [3621.0, 16.0, 271.0, 75.0],
    [3811.0, 13.0, 260.0, 78.0],
    [4014.0, 17.0, 245.0, 81.0],
    [4229.0, 13.0, 257.0, 77.0],
    [3994.0, 19.0, 242.0, 80.0],
    [4179.0, 15.0, 253.0, 83.0],
    [4386.0, 15.0, 264.0, 78.0],
    [4208.0, 13.0, 249.0, 82.0],
    [4016.0, 14.0, 236.0, 77.0],
    [3835.0, 16.0, 226.0, 81.0],
    [4026.0, 19.0, 238.0, 84.0],
    [4258.0, 16.0, 251.0, 88.0],
    [4479.0, 15.0, 265.0, 92.0],
];

/// The same for profile B, 40 % a step.
pub const PROFILE_B: [[f64; 4]; 21] = [
    [3000.0, 15.0, 300.0, 60.0],
    [4309.0, 15.0, 409.0, 82.0],
    [2635.0, 7.0, 268.0, 43.0],
    [3894.0, 6.0, 361.0, 27.0],
    [2241.0, 8.0, 197.0, 39.0],
    [1265.0, 12.0, 287.0, 52.0],
    [1699.0, 16.0, 420.0, 75.0],
    [1138.0, 11.0, 282.0, 50.0],
    [1543.0, 12.0, 153.0, 67.0],
    [2205.0, 17.0, 225.0, 97.0],
    [3198.0, 10.0, 332.0, 51.0],
    [4678.0, 18.0, 477.0, 73.0],
    [2588.0, 8.0, 315.0, 48.0],
    [1358.0, 16.0, 211.0, 67.0],
    [1794.0, 17.0, 307.0, 98.0],
    [2605.0, 11.0, 163.0, 61.0],
    [3719.0, 17.0, 240.0, 87.0],
    [2478.0, 9.0, 332.0, 53.0],
    [1507.0, 16.0, 466.0, 76.0],
    [2081.0, 8.0, 243.0, 50.0],
    [3053.0, 17.0, 149.0, 70.0],
];

/// One iteration of an approach in Tables 3 and 5.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Run {
    /// How long it took; 0 for iteration 0, which runs nothing.
    pub time: f64,
    /// The stored or estimated time of the mapping that was considered after it; 0 after the last.
    pub stored: f64,
    /// Whether that mapping was taken, for 1000.
    pub remapped: bool,
}

/// One iteration of all approaches in Tables 3 and 5.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Row {
    /// The table of mappings.
    pub on_off: Run,
    /// ECT while it runs.
    pub ect: Run,
    /// The genetic algorithm while it runs; 0 for iteration 0.
    pub genetic: f64,
    /// The genetic algorithm with the parameters of the iteration itself.
    pub ideal: f64,
}

/// Table 3: the graph of ten nodes on profile A.
pub const TABLE_3: [Row; 21] = [
    Row {
        on_off: Run { time: 0.0, stored: 54_391.0, remapped: true },
        ect: Run { time: 0.0, stored: 74_516.0, remapped: true },
        genetic: 0.0,
        ideal: 46_228.0,
    },
    Row {
        on_off: Run { time: 47_508.0, stored: 46_045.0, remapped: true },
        ect: Run { time: 76_384.0, stored: 76_029.0, remapped: false },
        genetic: 47_508.0,
        ideal: 47_508.0,
    },
    Row {
        on_off: Run { time: 47_993.0, stored: 47_286.0, remapped: false },
        ect: Run { time: 79_227.0, stored: 75_866.0, remapped: true },
        genetic: 49_095.0,
        ideal: 45_280.0,
    },
    Row {
        on_off: Run { time: 48_301.0, stored: 51_679.0, remapped: false },
        ect: Run { time: 75_375.0, stored: 74_586.0, remapped: false },
        genetic: 50_306.0,
        ideal: 45_856.0,
    },
    Row {
        on_off: Run { time: 48_921.0, stored: 51_679.0, remapped: false },
        ect: Run { time: 76_912.0, stored: 74_755.0, remapped: true },
        genetic: 48_520.0,
        ideal: 43_611.0,
    },
    Row {
        on_off: Run { time: 44_035.0, stored: 51_679.0, remapped: false },
        ect: Run { time: 74_966.0, stored: 71_491.0, remapped: true },
        genetic: 53_579.0,
        ideal: 40_937.0,
    },
    Row {
        on_off: Run { time: 49_121.0, stored: 51_679.0, remapped: false },
        ect: Run { time: 76_226.0, stored: 75_020.0, remapped: true },
        genetic: 48_410.0,
        ideal: 46_496.0,
    },
    Row {
        on_off: Run { time: 53_225.0, stored: 52_891.0, remapped: false },
        ect: Run { time: 79_468.0, stored: 77_336.0, remapped: true },
        genetic: 51_161.0,
        ideal: 47_580.0,
    },
    Row {
        on_off: Run { time: 55_303.0, stored: 52_891.0, remapped: true },
        ect: Run { time: 81_944.0, stored: 79_878.0, remapped: true },
        genetic: 55_447.0,
        ideal: 52_809.0,
    },
    Row {
        on_off: Run { time: 56_355.0, stored: 51_679.0, remapped: true },
        ect: Run { time: 83_053.0, stored: 82_556.0, remapped: false },
        genetic: 52_846.0,
        ideal: 50_539.0,
    },
    Row {
        on_off: Run { time: 63_288.0, stored: 63_958.0, remapped: false },
        ect: Run { time: 86_042.0, stored: 87_381.0, remapped: false },
        genetic: 55_887.0,
        ideal: 53_733.0,
    },
    Row {
        on_off: Run { time: 56_631.0, stored: 52_610.0, remapped: true },
        ect: Run { time: 82_874.0, stored: 88_226.0, remapped: false },
        genetic: 58_984.0,
        ideal: 51_973.0,
    },
    Row {
        on_off: Run { time: 58_025.0, stored: 55_142.0, remapped: true },
        ect: Run { time: 87_122.0, stored: 81_860.0, remapped: true },
        genetic: 63_183.0,
        ideal: 53_733.0,
    },
    Row {
        on_off: Run { time: 57_410.0, stored: 63_958.0, remapped: false },
        ect: Run { time: 87_644.0, stored: 87_182.0, remapped: false },
        genetic: 57_948.0,
        ideal: 54_311.0,
    },
    Row {
        on_off: Run { time: 59_774.0, stored: 53_073.0, remapped: true },
        ect: Run { time: 85_449.0, stored: 87_898.0, remapped: false },
        genetic: 56_267.0,
        ideal: 52_328.0,
    },
    Row {
        on_off: Run { time: 58_932.0, stored: 60_754.0, remapped: false },
        ect: Run { time: 86_152.0, stored: 87_311.0, remapped: false },
        genetic: 59_472.0,
        ideal: 55_476.0,
    },
    Row {
        on_off: Run { time: 55_878.0, stored: 58_723.0, remapped: false },
        ect: Run { time: 81_710.0, stored: 81_883.0, remapped: false },
        genetic: 55_878.0,
        ideal: 55_878.0,
    },
    Row {
        on_off: Run { time: 58_200.0, stored: 59_774.0, remapped: false },
        ect: Run { time: 81_434.0, stored: 76_982.0, remapped: true },
        genetic: 56_981.0,
        ideal: 51_227.0,
    },
    Row {
        on_off: Run { time: 60_966.0, stored: 63_958.0, remapped: false },
        ect: Run { time: 88_524.0, stored: 81_581.0, remapped: true },
        genetic: 56_961.0,
        ideal: 54_483.0,
    },
    Row {
        on_off: Run { time: 63_071.0, stored: 63_958.0, remapped: false },
        ect: Run { time: 91_701.0, stored: 84_474.0, remapped: true },
        genetic: 60_043.0,
        ideal: 59_846.0,
    },
    Row {
        on_off: Run { time: 65_608.0, stored: 0.0, remapped: false },
        ect: Run { time: 95_498.0, stored: 0.0, remapped: false },
        genetic: 58_528.0,
        ideal: 53_842.0,
    },
];

/// Table 5: the graph of ten nodes on profile B.
pub const TABLE_5: [Row; 21] = [
    Row {
        on_off: Run { time: 0.0, stored: 54_391.0, remapped: true },
        ect: Run { time: 0.0, stored: 76_029.0, remapped: true },
        genetic: 0.0,
        ideal: 47_980.0,
    },
    Row {
        on_off: Run { time: 61_988.0, stored: 69_217.0, remapped: false },
        ect: Run { time: 107_754.0, stored: 103_630.0, remapped: true },
        genetic: 66_150.0,
        ideal: 61_988.0,
    },
    Row {
        on_off: Run { time: 36_411.0, stored: 38_707.0, remapped: false },
        ect: Run { time: 63_998.0, stored: 61_852.0, remapped: true },
        genetic: 45_692.0,
        ideal: 34_972.0,
    },
    Row {
        on_off: Run { time: 49_142.0, stored: 45_126.0, remapped: true },
        ect: Run { time: 72_559.0, stored: 79_625.0, remapped: false },
        genetic: 44_712.0,
        ideal: 40_318.0,
    },
    Row {
        on_off: Run { time: 43_516.0, stored: 26_908.0, remapped: true },
        ect: Run { time: 51_686.0, stored: 51_648.0, remapped: false },
        genetic: 38_337.0,
        ideal: 28_418.0,
    },
    Row {
        on_off: Run { time: 38_740.0, stored: 34_726.0, remapped: true },
        ect: Run { time: 64_508.0, stored: 49_440.0, remapped: true },
        genetic: 35_719.0,
        ideal: 32_825.0,
    },
    Row {
        on_off: Run { time: 50_402.0, stored: 48_248.0, remapped: true },
        ect: Run { time: 74_503.0, stored: 74_365.0, remapped: false },
        genetic: 44_250.0,
        ideal: 29_231.0,
    },
    Row {
        on_off: Run { time: 34_390.0, stored: 50_402.0, remapped: false },
        ect: Run { time: 50_107.0, stored: 49_296.0, remapped: false },
        genetic: 29_842.0,
        ideal: 27_753.0,
    },
    Row {
        on_off: Run { time: 41_947.0, stored: 33_684.0, remapped: true },
        ect: Run { time: 62_863.0, stored: 45_772.0, remapped: true },
        genetic: 48_713.0,
        ideal: 31_601.0,
    },
    Row {
        on_off: Run { time: 45_940.0, stored: 48_911.0, remapped: false },
        ect: Run { time: 83_088.0, stored: 85_888.0, remapped: false },
        genetic: 48_095.0,
        ideal: 44_184.0,
    },
    Row {
        on_off: Run { time: 57_662.0, stored: 48_178.0, remapped: true },
        ect: Run { time: 75_503.0, stored: 76_404.0, remapped: false },
        genetic: 55_606.0,
        ideal: 42_139.0,
    },
    Row {
        on_off: Run { time: 64_180.0, stored: 62_401.0, remapped: true },
        ect: Run { time: 111_327.0, stored: 112_449.0, remapped: false },
        genetic: 69_058.0,
        ideal: 61_897.0,
    },
    Row {
        on_off: Run { time: 39_930.0, stored: 42_374.0, remapped: false },
        ect: Run { time: 67_829.0, stored: 68_907.0, remapped: false },
        genetic: 40_476.0,
        ideal: 39_930.0,
    },
    Row {
        on_off: Run { time: 46_949.0, stored: 40_904.0, remapped: true },
        ect: Run { time: 59_054.0, stored: 47_534.0, remapped: true },
        genetic: 46_350.0,
        ideal: 31_203.0,
    },
    Row {
        on_off: Run { time: 46_677.0, stored: 45_483.0, remapped: true },
        ect: Run { time: 84_529.0, stored: 67_120.0, remapped: true },
        genetic: 45_041.0,
        ideal: 41_910.0,
    },
    Row {
        on_off: Run { time: 58_622.0, stored: 41_498.0, remapped: true },
        ect: Run { time: 54_991.0, stored: 56_205.0, remapped: false },
        genetic: 34_473.0,
        ideal: 26_400.0,
    },
    Row {
        on_off: Run { time: 61_211.0, stored: 55_142.0, remapped: true },
        ect: Run { time: 78_358.0, stored: 80_091.0, remapped: false },
        genetic: 57_254.0,
        ideal: 51_032.0,
    },
    Row {
        on_off: Run { time: 46_193.0, stored: 42_374.0, remapped: true },
        ect: Run { time: 69_973.0, stored: 72_405.0, remapped: false },
        genetic: 46_243.0,
        ideal: 36_274.0,
    },
    Row {
        on_off: Run { time: 56_042.0, stored: 41_947.0, remapped: true },
        ect: Run { time: 85_659.0, stored: 72_229.0, remapped: true },
        genetic: 55_192.0,
        ideal: 44_846.0,
    },
    Row {
        on_off: Run { time: 49_145.0, stored: 38_707.0, remapped: true },
        ect: Run { time: 52_644.0, stored: 57_459.0, remapped: false },
        genetic: 47_570.0,
        ideal: 31_678.0,
    },
    Row {
        on_off: Run { time: 51_900.0, stored: 0.0, remapped: false },
        ect: Run { time: 68_733.0, stored: 0.0, remapped: false },
        genetic: 48_931.0,
        ideal: 43_881.0,
    },
];

/// A mapping of Table 4: type, processors and time of s0 … s9, and the times of messages, in the order of its edges.
pub type Printed = ([(usize, usize, f64); 10], [f64; 12]);

/// Table 4: the mappings of iteration 5 of profile A, by On-Off, ECT, the genetic algorithm on-line, and the ideal.
#[rustfmt::skip]
pub const TABLE_4: [Printed; 4] = [
    (
        [
            (1, 10, 11_217.0), (1, 13, 10_864.0), (2, 10, 13_367.0), (2, 5, 12_199.0), (3, 6, 4190.0),
            (2, 2, 18_553.0), (0, 9, 12_175.0), (2, 8, 18_346.0), (0, 15, 9355.0), (3, 10, 4738.0),
        ],
        [77.0, 184.0, 34.0, 2551.0, 212.0, 1523.0, 64.0, 3048.0, 1562.0, 2281.0, 223.0, 7600.0],
    ),
    (
        [
            (0, 10, 8060.0), (3, 4, 9906.0), (1, 16, 18_558.0), (3, 16, 4928.0), (3, 4, 4825.0),
            (0, 14, 21_664.0), (0, 2, 41_444.0), (0, 16, 13_440.0), (2, 12, 11_798.0), (1, 14, 14_655.0),
        ],
        [2321.0, 1526.0, 792.0, 3839.0, 194.0, 2281.0, 1551.0, 176.0, 1562.0, 167.0, 3040.0, 2534.0],
    ),
    (
        [
            (1, 10, 11_217.0), (2, 10, 8090.0), (0, 7, 8100.0), (1, 2, 10_836.0), (3, 10, 3691.0),
            (0, 10, 23_510.0), (2, 8, 27_098.0), (1, 11, 24_203.0), (0, 15, 9355.0), (3, 16, 3787.0),
        ],
        [95.0, 1526.0, 26.0, 2551.0, 1764.0, 1523.0, 64.0, 5334.0, 891.0, 183.0, 3040.0, 4343.0],
    ),
    (
        [
            (0, 10, 8060.0), (0, 5, 8517.0), (2, 11, 12_811.0), (0, 1, 11_600.0), (3, 14, 3484.0),
            (1, 4, 14_568.0), (1, 16, 15_449.0), (0, 10, 16_799.0), (1, 8, 9183.0), (3, 14, 4011.0),
        ],
        [85.0, 2287.0, 29.0, 3839.0, 1764.0, 1523.0, 57.0, 3048.0, 1033.0, 1523.0, 201.0, 5058.0],
    ),
];
