/** Amounts of the currency. They are stored and counted in whole millionths; people write them as decimals. */

const MICROS = 1_000_000
/** Sums stop at the largest amount, because a model server may report any number of tokens. */
export const MAX_COST = Number.MAX_SAFE_INTEGER

export function sumOfCosts(one: number, other: number): number {
  return Math.min(one + other, MAX_COST)
}

export function microsOf(amount: number): number {
  return Math.min(Math.round(amount * MICROS), MAX_COST)
}

export function amountOf(micros: number): number {
  return micros / MICROS
}

export function amountText(micros: number): string {
  const digits = String(micros).padStart(7, '0')
  const decimals = digits.slice(-6).replace(/0{1,4}$/, '')
  return `${digits.slice(0, -6)}.${decimals}`
}
