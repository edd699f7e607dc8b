/** What a line of a batch asks for. */
import type { CreateElement } from '../job/create-body.ts'

export interface WantedLine {
  readonly customId: string
  readonly element: CreateElement
}
