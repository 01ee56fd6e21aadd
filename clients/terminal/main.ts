/** The `service` command: reads the command line and hands each subcommand to its file. */
import { exitCodes, explainFailure } from './failures.ts';

const [first, ...rest] = process.argv.slice(2);
try {
  if ((first === 'version' || first === '--version') && rest.length === 0) {
    // Asked by scripts, many times: not worth reading the whole command line's definition for.
    const { printVersion } = await import('./commands/version.ts');
    printVersion();
  } else {
    const { buildProgram } = await import('./program.ts');
    await buildProgram().parseAsync(process.argv);
  }
} catch (error) {
  process.stderr.write(`${explainFailure(error)}\n`);
  process.exitCode =
    error instanceof Error && 'exitCode' in error ? Number(error.exitCode) : exitCodes.failed;
}
