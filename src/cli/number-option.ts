/** Parses options whose value is a whole number in a range. */
import { InvalidArgumentError } from 'commander'

export function numberFrom(least: number, most: number): (text: string) => number {
  return (text) => {
    const number = Number(text)
    if (!/^\d+$/.test(text) || number < least || number > most) {
      throw new InvalidArgumentError(`It must be a whole number from ${least} to ${most}.`)
    }
    return number
  }
}
