/**
 * The cost of calls, in whole millionths of the currency. A price is an amount per million tokens, so it is also the number of
 * millionths per token. The arithmetic is exact for prices with up to nine decimals. The cost of each call is rounded once,
 * half up.
 */
import { MAX_COST, sumOfCosts } from './amount.ts'
import { formatParts, splitOptions } from './response-format.ts'

/** Prices are amounts of the currency per million tokens. */
export interface Price {
  readonly input: number
  /** If absent, cached tokens cost as much as others. */
  readonly cached_input?: number | undefined
  readonly output: number
}

export interface PricedModel {
  readonly targets?:
    | readonly {
        readonly upstream: string
        readonly model: string
        readonly price?: Price | undefined
      }[]
    | undefined
  readonly auto?: readonly { readonly model: string }[] | undefined
  readonly price?: Price | undefined
  readonly max_output_tokens?: number | undefined
}

export interface UsedTokens {
  readonly input: number
  readonly output: number
  readonly cached?: number
}

export interface PricedJob {
  readonly model: string
  readonly inputTokens: number
  readonly responseFormatJson: string
}

/** Costs are computed in units of a millionth divided by this number. */
const DECIMALS = 1_000_000_000n
const HALF = DECIMALS / 2n
/** An answer without a limit is estimated to have this many tokens. */
export const USUAL_OUTPUT_TOKENS = 4096
/** For JSON, Parley adds an instruction, and may ask for a repair. These are estimates of their tokens. */
const INSTRUCTION_TOKENS = 256
const REPAIR_TOKENS = 1024

export function costOf(price: Price, { input, output, cached = 0 }: UsedTokens): number {
  const [all, fromCache] = [whole(input), whole(Math.min(cached, input))]
  const { cached_input = price.input } = price
  const sum =
    (all - fromCache) * exact(price.input) +
    fromCache * exact(cached_input) +
    whole(output) * exact(price.output)
  return Math.min(Number((sum + HALF) / DECIMALS), MAX_COST)
}

export function costOfInput(price: number, input: number): number {
  return costOf({ input: price, output: 0 }, { input, output: 0 })
}

function exact(price: number): bigint {
  return BigInt(Math.round(price * Number(DECIMALS)))
}

function whole(tokens: number): bigint {
  return tokens > 0 ? BigInt(Math.min(Math.floor(tokens), Number.MAX_SAFE_INTEGER)) : 0n
}

export type InputPrices = ReadonlyMap<string, number>

interface Target {
  readonly name: string
  readonly price: Price
  readonly maxOutputTokens: number
}

export class Prices {
  /** `gpt-auto` has the targets of the models from which it chooses. */
  readonly #targets: ReadonlyMap<string, readonly (Target & { readonly of: string })[]>

  constructor(models: Readonly<Record<string, PricedModel>>) {
    const own = (name: string) => pricedTargets(models[name]).map((target) => ({ ...target, of: name }))
    this.#targets = new Map(
      Object.entries(models).map(([name, { auto }]) => [
        name,
        auto === undefined ? own(name) : auto.flatMap(({ model }) => own(model)),
      ]),
    )
  }

  get isEmpty(): boolean {
    return [...this.#targets.values()].every((targets) => targets.length === 0)
  }

  isPriced(model: string): boolean {
    return (this.#targets.get(model) ?? []).length > 0
  }

  get ofInput(): InputPrices {
    return new Map(
      [...this.#targets].flatMap(([model, [first]]) =>
        first === undefined ? [] : [[model, first.price.input]],
      ),
    )
  }

  costOf(model: string, target: string, tokens: UsedTokens): number | null {
    const priced = this.#targets.get(model)?.find(({ name }) => name === target)
    return priced === undefined ? null : costOf(priced.price, tokens)
  }

  /**
   * Returns an estimate of the cost of the job at its most expensive target, including a repair for JSON; null if no target has
   * a price.
   * @param models the models that the tier of the job may use
   */
  estimateOf(job: PricedJob, models: ReadonlySet<string>): number | null {
    const targets = this.#targets.get(job.model)?.filter(({ of }) => models.has(of))
    if (targets === undefined || targets.length === 0) return null
    return Math.max(...targets.map((target) => estimateAt(target, job)))
  }
}

function pricedTargets({ targets = [], price: usual, max_output_tokens }: PricedModel = {}): Target[] {
  return targets.flatMap(({ upstream, model, price = usual }) => {
    const maxOutputTokens = max_output_tokens ?? USUAL_OUTPUT_TOKENS
    return price === undefined ? [] : [{ name: `${upstream}/${model}`, price, maxOutputTokens }]
  })
}

function estimateAt({ price, maxOutputTokens }: Target, job: PricedJob): number {
  const { inputTokens, responseFormatJson } = job
  const { optionsJson } = splitOptions(responseFormatJson)
  const { max_tokens: output = maxOutputTokens }: { max_tokens?: number } = JSON.parse(optionsJson ?? '{}')
  const dearest = { ...price, input: Math.max(price.input, price.cached_input ?? 0) }
  const format = formatParts(responseFormatJson)
  if (format.kind === 'text') return costOf(dearest, { input: inputTokens, output })
  // A token has at least one byte, so the schema has at most this many tokens.
  const schema = format.kind === 'schema' ? Buffer.byteLength(format.schemaJson) : 0
  const input = inputTokens + schema + INSTRUCTION_TOKENS
  const repaired = input + output + schema + REPAIR_TOKENS
  return sumOfCosts(costOf(dearest, { input, output }), costOf(dearest, { input: repaired, output }))
}
