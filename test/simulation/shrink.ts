/**
 * Shrinks a failing history: leaves out actions, jobs and nodes without which it still fails. Leaves out half of the actions at
 * a time, then a quarter, and so on.
 */
import type { Action, Plan } from './plan.ts'

const MOST_TRIES = 400

export async function shrink(plan: Plan, fails: (plan: Plan) => Promise<boolean>): Promise<Plan> {
  const shrinker = new Shrinker(fails)
  let smallest = plan
  for (let before = -1; before !== sizeOf(smallest); ) {
    before = sizeOf(smallest)
    smallest = await shrinker.withoutActions(smallest)
    smallest = await shrinker.withSmallerActions(smallest)
    smallest = await shrinker.withFewerNodes(smallest)
  }
  return smallest
}

function sizeOf({ actions, nodes }: Plan): number {
  return (
    nodes + actions.reduce((sum, action) => sum + 1 + (action.kind === 'create' ? action.jobs.length : 0), 0)
  )
}

class Shrinker {
  readonly #fails: (plan: Plan) => Promise<boolean>
  #tries = 0

  constructor(fails: (plan: Plan) => Promise<boolean>) {
    this.#fails = fails
  }

  async withoutActions(plan: Plan): Promise<Plan> {
    let smallest = plan
    for (
      let size = Math.ceil(plan.actions.length / 2);
      size >= 1;
      size = size === 1 ? 0 : Math.ceil(size / 2)
    ) {
      for (let at = 0; at < smallest.actions.length; ) {
        const actions = smallest.actions.toSpliced(at, size)
        const smaller = { ...smallest, actions }
        if (await this.#stillFails(smaller)) smallest = smaller
        else at += size
      }
    }
    return smallest
  }

  async withSmallerActions(plan: Plan): Promise<Plan> {
    let smallest = plan
    for (const [at, action] of plan.actions.entries()) {
      if (action.kind !== 'create') continue
      let jobs = action.jobs
      for (const job of action.jobs) {
        const fewer = jobs.filter((one) => one !== job)
        if (fewer.length === 0) continue
        const smaller = withAction(smallest, at, { ...action, jobs: fewer })
        if (!(await this.#stillFails(smaller))) continue
        smallest = smaller
        jobs = fewer
      }
    }
    return smallest
  }

  async withFewerNodes(plan: Plan): Promise<Plan> {
    let smallest = plan
    while (smallest.nodes > 1) {
      const smaller = { ...smallest, nodes: smallest.nodes - 1 }
      if (!(await this.#stillFails(smaller))) break
      smallest = smaller
    }
    return smallest
  }

  async #stillFails(plan: Plan): Promise<boolean> {
    this.#tries += 1
    return this.#tries <= MOST_TRIES && this.#fails(plan)
  }
}

function withAction(plan: Plan, at: number, action: Action): Plan {
  return { ...plan, actions: plan.actions.with(at, action) }
}
