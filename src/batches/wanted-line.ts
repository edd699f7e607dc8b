/** What a line of a batch asks for, or what is wrong with it. */
import type { CreateElement } from '../job/create-body.ts'
import type { Problem } from './progress.ts'

export interface WantedLine {
  readonly customId: string
  readonly element: CreateElement
}

export interface WrongLine extends Problem {
  readonly param: string | null
}
