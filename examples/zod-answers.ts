/**
 * Requests an answer that matches a Zod schema, and gets it validated and typed.
 *
 * In a clone of Parley, start the server, which prints an API key when it starts for the first time:
 *
 *     npm ci && npm start
 *
 * In a second terminal, in the same folder:
 *
 *     npm run -s build --workspace client
 *     PARLEY_API_KEY=prl_… npx node examples/zod-answers.ts
 *
 * In a project of your own, copy this file and install zod and parley-client (`npm pack --workspace client` creates the package). It runs on
 * Node 22.18 and newer if your package.json has "type": "module". Set PARLEY_URL if the server is on another machine.
 */
import { JobFailedError, Parley, ResponseContentError } from 'parley-client'
import * as z from 'zod'

/** If objects are strict and all properties are required, a model server can enforce the schema while it generates the answer. */
const River = z.strictObject({
  name: z.string().min(1),
  lengthKm: z.number().positive().describe('the length in kilometres'),
  countries: z.array(z.string()).describe('the countries it flows through, from the source to the mouth'),
  // Parley checks the format of the date, and Zod converts the text to a Date.
  measured: z.iso.date().transform((text) => new Date(text)),
})

const parley = new Parley({ baseUrl: process.env.PARLEY_URL ?? 'http://127.0.0.1:8080' }) // and PARLEY_API_KEY
try {
  const job = await parley.messages.createAndWait({
    model: 'gpt-5-mini',
    response_format: { format: 'json', schema: River },
    messages: [
      { role: 'system', content: 'Answer with facts about the river.' },
      { role: 'user', content: 'The Rhine.' },
    ],
  })
  const river = job.result.response_content // { name: string; lengthKm: number; countries: string[]; measured: Date }
  console.log(
    `${river.name}: ${river.lengthKm.toFixed()} km through ${river.countries.join(', ') || 'no country'}`,
  )
  console.log(`measured in ${river.measured.getUTCFullYear()}`)
} catch (error) {
  // The job failed: the model did not answer, or its answer did not match the schema, even after one repair.
  if (error instanceof JobFailedError) console.error(error.code, error.job.error.message)
  // The answer satisfies the JSON Schema, but breaks a rule that only Zod can check, such as a refinement.
  else if (error instanceof ResponseContentError) console.error(error.message)
  else throw error
  process.exitCode = 1
}
