/** `parley completion`: prints a script that completes commands, options and values in a shell. */
import { Argument, type Command } from 'commander'
import { printLine } from '../output.ts'
import { bashScript } from './bash.ts'
import { fishScript } from './fish.ts'
import { completedCommands } from './tree.ts'
import { zshScript } from './zsh.ts'

const SCRIPTS = { bash: bashScript, zsh: zshScript, fish: fishScript }
type Shell = keyof typeof SCRIPTS

const HELP = `
Examples:
  source <(parley completion bash)            in ~/.bashrc
  source <(parley completion zsh)             in ~/.zshrc, after compinit
  parley completion fish > ~/.config/fish/completions/parley.fish`

export function addCompletion(command: Command, program: Command): void {
  command
    .description('print a completion script for a shell')
    .addArgument(new Argument('<shell>', 'the shell').choices(Object.keys(SCRIPTS)))
    .addHelpText('after', HELP)
    .action((shell: Shell) => printLine(SCRIPTS[shell](completedCommands(program)).trimEnd()))
}
