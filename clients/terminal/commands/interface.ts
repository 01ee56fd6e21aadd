/** `service` alone: where the terminal interface will open. */
import { paint, print } from '../output.ts';

/** Says that there is no interface yet, and what there is instead. */
export function openInterface(): void {
  print('The terminal interface does not exist yet. Until it does, ask in one line:');
  print('');
  print(`  ${paint('cyan', 'service run "What does this project do?"')}`);
  print('');
  print(`${paint('cyan', 'service --help')} lists everything else.`);
}
