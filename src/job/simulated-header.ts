/** The header that marks responses and callbacks while the simulator answers, so that nobody takes its answers for those of a model. */
export const SIMULATED_HEADER = 'x-parley-simulated'
