/**
 * The header that marks responses and callbacks while the simulator answers, so that nobody mistakes its answers for a model's.
 */
export const SIMULATED_HEADER = 'x-parley-simulated'
