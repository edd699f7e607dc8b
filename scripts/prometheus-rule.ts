/** Generates the alert rules as a resource of the Prometheus operator. */
import { readFileSync } from 'node:fs'

const RULES = new URL('../deploy/prometheus-alerts.yml', import.meta.url)

/** Returns the text of deploy/kubernetes/monitoring/prometheus-rule.yaml. */
export function prometheusRule(): string {
  const rules = readFileSync(RULES, 'utf8').replace(/^#.*\n/gm, '')
  return `# Made from deploy/prometheus-alerts.yml by npm run docs.
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: parley
spec:
${rules.replace(/^(?=.)/gm, '  ')}`
}
