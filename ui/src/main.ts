import { mount } from 'svelte';
import 'uplot/dist/uPlot.min.css';
import './app.css';
import App from './App.svelte';

const target = document.getElementById('app');
if (target) {
  target.replaceChildren(); // the line that stood there while this was loaded
  mount(App, { target });
}
