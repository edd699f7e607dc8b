/** `npm run simulate`: runs many seeds, or one with every step of it. */
import { parseArgs } from 'node:util'
import { generatePlan } from './generate.ts'
import { simulate } from './simulate.ts'

const { values } = parseArgs({
  options: {
    seed: { type: 'string' },
    seeds: { type: 'string', default: '1000' },
    minutes: { type: 'string' },
    from: { type: 'string', default: '1' },
  },
})
const print = (text: string) => void process.stdout.write(`${text}\n`)
if (values.seed !== undefined) {
  const plan = generatePlan(Number(values.seed))
  const result = await simulate(plan, (atMs, text) =>
    print(`${(atMs / 1000).toFixed(3).padStart(10)} ${text}`),
  )
  print(JSON.stringify(result, null, 1))
} else {
  const from = Number(values.from)
  let simulatedMs = 0,
    steps = 0,
    jobs = 0,
    failed = 0
  const started = performance.now()
  for (let seed = from; seed < from + Number(values.seeds); seed++) {
    const result = await simulate(generatePlan(seed))
    simulatedMs += result.simulatedMs
    steps += result.steps
    jobs += result.jobs
    if (result.violations.length > 0) {
      failed++
      for (const { rule, what } of result.violations) print(`seed ${seed}: ${rule}: ${what.slice(0, 400)}`)
    }
  }
  const s = (performance.now() - started) / 1000
  print(
    `${failed} failed; ${(simulatedMs / 3.6e6).toFixed(1)} h, ${steps} steps, ${jobs} jobs in ${s.toFixed(1)} s`,
  )
}
