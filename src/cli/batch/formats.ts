/** The shapes that results are written in: ours, or that of OpenAI's batch output files. */
export const FORMATS = ['parley', 'openai'] as const
export type Format = (typeof FORMATS)[number]
