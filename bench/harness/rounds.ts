/** Lets sides take turns in rounds, and computes the ratios between them. On a noisy machine, only ratios are reliable. */

export interface Spread {
  readonly median: number
  readonly min: number
  readonly max: number
}

export function spreadOf(values: readonly number[]): Spread {
  const sorted = [...values].sort((a, b) => a - b)
  const half = sorted.length / 2
  const low = sorted[Math.ceil(half) - 1] ?? Number.NaN
  const high = sorted[Math.floor(half)] ?? Number.NaN
  return { median: (low + high) / 2, min: sorted[0] ?? Number.NaN, max: sorted.at(-1) ?? Number.NaN }
}

/** Each round begins with the side after the one with which the previous round began. */
export async function interleaved<Side extends string, Measured>(
  sides: readonly Side[],
  rounds: number,
  measure: (side: Side, round: number) => Promise<Measured>,
): Promise<Map<Side, Measured[]>> {
  const measured = new Map<Side, Measured[]>(sides.map((side) => [side, []]))
  for (let round = 0; round < rounds; round++) {
    for (let turn = 0; turn < sides.length; turn++) {
      const side = sides[(round + turn) % sides.length]
      if (side !== undefined) measured.get(side)?.push(await measure(side, round))
    }
  }
  return measured
}

/** Divides round by round, so that drift of the machine affects both sides of a ratio. */
export function ratios<Measured>(
  ours: readonly Measured[],
  theirs: readonly Measured[],
  figure: (measured: Measured) => number,
): Spread {
  return spreadOf(
    ours.flatMap((mine, round) => {
      const other = theirs[round]
      return other === undefined ? [] : [figure(mine) / figure(other)]
    }),
  )
}
