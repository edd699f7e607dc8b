/** The formats of the results: Parley's, or that of OpenAI's batch output files. */
export const FORMATS = ['parley', 'openai'] as const
export type Format = (typeof FORMATS)[number]
