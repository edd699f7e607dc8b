#!/usr/bin/env node
/**
 * Starts the program: rejects unsupported versions of Node, enables the compile cache, which halves the start time, and runs
 * the command line.
 */
import module from 'node:module'
import { nodeProblem } from './node-version.ts'

const problem = nodeProblem(process.versions.node)
if (problem === null) {
  module.enableCompileCache()
  const { runCommandLine } = await import('./cli/program.ts')
  process.exitCode = await runCommandLine(process.argv.slice(2))
} else {
  process.stderr.write(`${problem}\n`)
  process.exitCode = 1
}
