import { mount } from 'svelte';
import 'uplot/dist/uPlot.min.css';
import './app.css';
import App from './App.svelte';

const target = document.getElementById('app');
if (target) mount(App, { target });
