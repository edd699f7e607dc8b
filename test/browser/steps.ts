/** Contains the steps that several tests of the dashboard take in a page. */
import type { Page } from 'playwright-core'

export const rows = (page: Page) => page.locator('tbody tr').first().waitFor()

export async function rowsAre(page: Page, count: number): Promise<void> {
  await page.waitForFunction((all) => document.querySelectorAll('tbody tr').length === all, count)
}

export async function createKey(page: Page): Promise<void> {
  await page.getByRole('button', { name: 'Create a key for one day' }).click()
  await page.getByText('Key of').waitFor()
}

export async function confirm(page: Page, button: string | RegExp, action: string): Promise<void> {
  await page.getByRole('button', { name: button }).click()
  await page.getByRole('dialog').getByRole('button', { name: action }).click()
}

export function press(name: string | RegExp) {
  return async (page: Page) => {
    await page.getByRole('button', { name }).click()
    await page.getByRole('dialog').waitFor()
  }
}

export async function showContents(page: Page): Promise<void> {
  await page.getByRole('button', { name: /Show contents/ }).click()
  await page.getByRole('heading', { name: 'Repair' }).waitFor()
}

export async function play(page: Page): Promise<void> {
  await createKey(page)
  await page.getByLabel('Fill in an example').selectOption('JSON with a schema')
  await page.getByRole('button', { name: 'Send' }).click()
  await page.locator('.step.is-here.is-completed').waitFor()
  await page.getByRole('region', { name: 'the answer' }).waitFor()
}
