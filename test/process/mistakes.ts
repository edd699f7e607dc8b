/** Checks how commands end, and that they report mistakes: with an exit code, on standard error alone, without a stack. */
import assert from 'node:assert/strict'
import type { TestContext } from 'node:test'
import type { Ended, Installation, ProgramOptions } from './server-process.ts'

export interface Mistake {
  /** The arguments are separated by spaces. */
  readonly args: string
  readonly env?: Readonly<Record<string, string | undefined>>
  readonly code?: number
  readonly says: RegExp
}

type Run = (args: readonly string[], options: Pick<ProgramOptions, 'env'>) => Promise<Ended>

export async function reportEach(t: TestContext, mistakes: readonly Mistake[], run: Run | Installation) {
  for (const { args, env, code, says } of mistakes) {
    await t.test(args + (env ? ` (${JSON.stringify(env)})` : ''), async () => {
      const options = env ? { env } : {}
      const words = args === '' ? [] : args.split(' ')
      reported(
        await (typeof run === 'function' ? run(words, options) : run.parley(words, options)),
        says,
        code,
      )
    })
  }
}

export interface Expected {
  readonly code: number
  /** A regular expression may match a part of the output. If absent, any output is right. */
  readonly stdout?: string | RegExp
  readonly stderr?: string | RegExp
}

export function assertEnded(ended: Ended, { code, ...printed }: Expected): void {
  assert.equal(ended.code, code, ended.stderr)
  for (const [name, text] of Object.entries(printed)) {
    const actual = ended[name as keyof typeof printed]
    if (typeof text === 'string') assert.equal(actual, text)
    else assert.match(actual, text)
  }
}

/** The command must print only on standard error, and no stack. */
export function reported({ code, stdout, stderr }: Ended, says: RegExp, expected = 1): void {
  assert.deepEqual([code, stdout], [expected, ''], stderr)
  assert.match(stderr, says)
  assert.doesNotMatch(stderr, /^\s+at .+:\d+/m, 'a stack is shown')
}
