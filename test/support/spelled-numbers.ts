/**
 * Spells the numbers in a JSON text differently, without changing their values: with a decimal point, with an exponent, or as
 * negative zero.
 */
import fc from 'fast-check'

interface Spelling {
  readonly form: 'as it is' | 'exponent' | 'point' | 'leading zero'
  readonly at: number
  readonly zeros: number
  readonly e: 'e' | 'E' | 'e+' | 'E+'
}

export const spellings: fc.Arbitrary<(json: string) => string> = fc
  .array(
    fc.record<Spelling>({
      form: fc.constantFrom('as it is', 'exponent', 'point', 'leading zero'),
      at: fc.nat(20),
      zeros: fc.nat(3),
      e: fc.constantFrom('e', 'E', 'e+', 'E+'),
    }),
    { minLength: 6, maxLength: 6 },
  )
  .map((all) => {
    return (json) => {
      let next = 0
      return replaceNumbers(json, (number) => spelled(number, all[next++ % all.length] as Spelling))
    }
  })

export function numbersIn(json: string): readonly string[] {
  const found: string[] = []
  replaceNumbers(json, (number) => {
    found.push(number)
    return number
  })
  return found
}

const STRING_OR_NUMBER = /"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/gs

function replaceNumbers(json: string, replace: (number: string) => string): string {
  return json.replace(STRING_OR_NUMBER, (token) => (token.startsWith('"') ? token : replace(token)))
}

/** In each form, the value is `digits` × 10 ^ `exponent`. */
function spelled(number: string, { form, at, zeros, e }: Spelling): string {
  const [, sign = '', whole = '', fraction = '', power = '0'] =
    /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/.exec(number) ?? []
  const digits = (whole + fraction).replace(/^0+(?=\d)/, '')
  const exponent = Number(power) - fraction.length
  const padding = '0'.repeat(zeros)
  const scaled = (by: number) => (by < 0 ? `${e[0]}${by}` : `${e}${by}`)
  // Zero may have any sign and any exponent.
  const signed = digits === '0' && zeros > 1 ? '-' : sign
  switch (form) {
    case 'as it is':
      return number
    case 'exponent':
      return digits === '0'
        ? `${signed}0${scaled(at)}`
        : `${sign}${digits}${padding}${scaled(exponent - zeros)}`
    case 'point': {
      const before = 1 + (at % digits.length)
      const after = `${digits.slice(before)}${padding}` || '0'
      const moved = exponent + digits.length - before
      return `${signed}${digits.slice(0, before)}.${after}${moved === 0 ? '' : scaled(moved)}`
    }
    case 'leading zero':
      return `${signed}0.${padding}${digits}${scaled(exponent + digits.length + zeros)}`
  }
}
