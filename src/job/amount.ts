/** Amounts of the currency: whole millionths where they are stored and counted, decimals where people set them. */

const MICROS = 1_000_000
/** The largest amount that is stored. A model server may report any number of tokens. */
export const MAX_COST = Number.MAX_SAFE_INTEGER

/** Amounts that are too large to be stored count as the largest that is. */
export function sumOfCosts(one: number, other: number): number {
  return Math.min(one + other, MAX_COST)
}

/** An amount of the currency in millionths. */
export function microsOf(amount: number): number {
  return Math.min(Math.round(amount * MICROS), MAX_COST)
}

export function amountOf(micros: number): number {
  return micros / MICROS
}

/** For people: `1.50` or `0.000375`. */
export function amountText(micros: number): string {
  const digits = String(micros).padStart(7, '0')
  const decimals = digits.slice(-6).replace(/0{1,4}$/, '')
  return `${digits.slice(0, -6)}.${decimals}`
}
